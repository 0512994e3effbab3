"""The documentation site: its own pages, the guides at the top of the repository, and references made from the code.

    pages/ ──┐
    *.md   ──┼─▶ assembly ─▶ build/docs-pages ─▶ mkdocs --strict ─▶ build/docs
    reference/ (CLI, configuration, metrics, plugin API) ─┘

`make docs` runs `python -m docs.build`. It needs no network, and a broken link or anchor fails it.
"""
