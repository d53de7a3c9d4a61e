"""The rules: what is seen becomes a plan, and the plan is carried out."""
