"""Which of some texts goes on, or answers, best."""
