"""Calibration: temperatures fitted by NLL, applied to any decoding, and judged before and after.

    T(x) = softplus(a + b log C + c log(L / 1000))        p = softmax(z / T)

`fit_calibrator` fits the scalar, per-kind or contextual form and says what the data identify;
`choose_mode` picks the form by cross-validation over source families; `calibration_effect` shows
what a calibrator does to a run, and where it makes it worse.
"""
