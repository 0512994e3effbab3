"""An optional admission webhook that names the scheduler of new pods.

    apiserver ─ AdmissionReview ─▶ webhook ─▶ admission (what is asked) ─▶ rules (which scheduler) ─▶ a JSON patch

It never refuses a pod. If it does not answer, the apiserver goes on without it (`failurePolicy: Ignore`).
"""
