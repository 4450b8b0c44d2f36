"""The stages of a recipe: one file per task, each with a function `train(stage, session)`."""
