"""Pictures: files of one, folders and zip archives of many, MNIST's idx files, scikit-learn's digits; all become uint8 arrays."""

from regard.data.pictures.decoding import decoded_picture, read_picture
from regard.data.pictures.digits import DigitPictures, read_digits
from regard.data.pictures.idx import read_idx
from regard.data.pictures.places import PicturePlace, open_pictures
from regard.data.pictures.sizing import Fit, fitted
from regard.data.pictures.steps import FILTERS, PictureSteps

__all__ = [
    "FILTERS",
    "DigitPictures",
    "Fit",
    "PicturePlace",
    "PictureSteps",
    "decoded_picture",
    "fitted",
    "open_pictures",
    "read_digits",
    "read_idx",
    "read_picture",
]
