"""Results that figures draw: curves with bands, means of arms, training logs."""
