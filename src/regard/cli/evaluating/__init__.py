"""`regard evaluate`: what is asked, one file for each kind of model, and what is reported."""
