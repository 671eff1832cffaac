"""Metrics of predicted classes, numbers, answers and spans, computed as by the official scripts."""
