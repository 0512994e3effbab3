# Nothing here is for Python: see row_ranking.pxd.
