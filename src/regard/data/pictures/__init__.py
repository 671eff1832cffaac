"""Pictures: files of one, folders and zip archives of many, MNIST's idx files, scikit-learn's digits; all become uint8 arrays."""

from regard.data.pictures.decoding import FILTERS, Fit, PictureSteps, decoded_picture, fitted, read_picture
from regard.data.pictures.digits import DigitPictures, read_digits, read_idx
from regard.data.pictures.places import PicturePlace, open_pictures

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
