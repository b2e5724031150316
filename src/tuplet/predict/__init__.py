"""Link predictors: raw scores for edges nobody stated."""
