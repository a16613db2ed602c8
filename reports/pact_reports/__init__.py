"""What people read: terminal tables; figures, the HTML page and LaTeX tables have room here."""
