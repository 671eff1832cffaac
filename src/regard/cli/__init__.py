"""regard.cli"""
