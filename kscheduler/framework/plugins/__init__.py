"""In-tree plugins, one module or package each, named as in kube-scheduler; `registry` lists them.

None imports another.
"""
