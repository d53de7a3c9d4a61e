"""What is wrong with an object: the operator's own rules, one module a kind, one module a subject.

Pure functions from an object (and the operator's feature gates) to a list of problems. The operator, the webhook and
the command line all ask here, so a rule stands in one place.
"""
