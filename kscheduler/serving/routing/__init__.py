"""An optional admission webhook that sets the schedulerName of new pods.

    apiserver ─ AdmissionReview ─▶ webhook ─▶ admission (decodes it) ─▶ rules (choose a scheduler) ─▶ a JSON patch

It never rejects a pod. If it does not answer, the apiserver continues without it (`failurePolicy: Ignore`).
"""
