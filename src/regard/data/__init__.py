"""Reading files and hub datasets, builtin data, memory-mapped tokens, batches by token count."""

from regard.old_names import add_old_modules

add_old_modules(
    __name__,
    {
        "captions": "regard.data.labelled_images",
        "characters": "regard.data.labelled_images",
        "cue_documents": "regard.data.synthetic_texts",
        "entailment": "regard.data.synthetic_texts",
        "masking": "regard.data.pretraining",
        "motifs": "regard.data.sequences",
        "music.performance": "regard.data.notes",
        "predictions": "regard.data.questions",
        "python_docs": "regard.data.running_text",
        "role_triples": "regard.data.synthetic_texts",
        "sentences": "regard.data.running_text",
        "span_corruption": "regard.data.pretraining",
    },
)
