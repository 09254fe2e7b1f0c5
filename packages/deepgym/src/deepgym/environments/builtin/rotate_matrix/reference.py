def rotate_matrix(matrix, turns):
    for _ in range(turns % 4):
        matrix = [[row[column] for row in reversed(matrix)] for column in range(len(matrix[0]))]
    return matrix
