"""An optional page about the running scheduler, below /ui/ of the secure port: `kscheduler run --ui`.

    scheduler's loop                       the page's thread, with a loop of its own
    feed ─ reader takes a reading ───────▶ hub ─ topics make documents ─▶ streams (server-sent events) ─▶ browsers
    explainer, node details ◀── questions ─ page ─ access (TokenReview, SubjectAccessReview), limits

With the flag the whole HTTPS endpoint runs in that thread: handshakes, encryption and slow clients delay no decision.
What reads the scheduler still runs on its loop: readings, every two seconds while somebody watches and for at most half
a percent of the time; questions about one pod or node, a few in a second; and the other endpoints' handlers. Without
the flag nothing of this package is imported.
"""
