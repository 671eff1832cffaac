"""Captioning: pictures to texts."""
