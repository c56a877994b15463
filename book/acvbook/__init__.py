"""What only the book needs: data sets, studies, figures, networks, and the ledger of its
numbers.
"""
