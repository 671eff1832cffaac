"""Looking inside: the recorder, its record, pictures of attention."""

from regard.inspection.look import look
from regard.inspection.record import Record
from regard.inspection.recorder import Recorder, Run, attention_addresses
from regard.inspection.view import AttentionMap, AttentionView

__all__ = ["AttentionMap", "AttentionView", "Record", "Recorder", "Run", "attention_addresses", "look"]
