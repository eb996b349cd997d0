"""Distance between the column spaces of two matrices."""

import numpy as np


def subspace_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Distance between the column spaces of two matrices: 0 if equal, 1 if orthogonal.

    For orthonormal bases `U` and `V` of the two spaces of dimension `C`, with principal angles `theta_i`::

        d^2 = ||V - U U^T V||^2 / C = mean of sin^2(theta_i)

    Args:
        x: Matrix `[N, C]` of full column rank, `N` at least `C`.
        y: Matrix `[N, C]`.

    Raises:
        ValueError: If the shapes differ, a matrix has fewer rows than columns, or its columns are linearly dependent.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> plane = np.array([[1.0, 0], [0, 1], [0, 0], [0, 0]])
    >>> round(kt.metrics.subspace_distance(plane, plane @ [[2, 1], [0, 3]]), 6)
    0.0
    >>> kt.metrics.subspace_distance(plane, plane[::-1])
    1.0

    References:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, appendix B. Bjorck and Golub,
        Numerical Methods for Computing Angles between Linear Subspaces.
    """
    x, y = (np.asarray(matrix, np.float64) for matrix in (x, y))
    if x.ndim != 2 or x.shape != y.shape or not 0 < x.shape[1] <= x.shape[0]:
        raise ValueError(
            f"Expected two matrices [N, C] with C at least 1 and N at least C. Received: shapes {x.shape} and {y.shape}"
        )
    (u, r_x), (v, r_y) = np.linalg.qr(x), np.linalg.qr(y)
    for name, r in {"x": r_x, "y": r_y}.items():
        sizes = np.abs(np.diag(r))
        if sizes.min() <= 1e-10 * sizes.max():
            raise ValueError(f"The columns of `{name}` must be linearly independent. Received: dependent columns.")
    residual = v - u @ (u.T @ v)
    return float(np.sqrt(np.sum(residual**2) / x.shape[1]))
