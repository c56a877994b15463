"""What only the book needs: data sets, studies, figures, networks, the ledger of its numbers."""
