"""Picture classification: pictures to classes."""
