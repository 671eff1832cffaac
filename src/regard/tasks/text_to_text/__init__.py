"""Text to text: every task as a text read and a text written, told apart by what stands in front."""
