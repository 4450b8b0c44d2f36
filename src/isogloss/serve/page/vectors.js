// Vectors as the service sends them, at length 1, so that the product of two is their cosine similarity.

/** The vector in little-endian float32 bytes, in base64. */
export function decoded(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, place) => view.getFloat32(4 * place, true));
}

/** Vectors of the same dimension, one after the other. */
export class VectorList {
  constructor(capacity) {
    this.capacity = capacity;
    this.count = 0;
    this.dimension = 0;
    this.values = new Float32Array(0);
  }

  add(vector) {
    if (!this.count) {
      this.dimension = vector.length;
      this.values = new Float32Array(this.capacity * this.dimension);
    }
    if (vector.length !== this.dimension) throw new RangeError("vectors of different dimensions");
    const length = Math.hypot(...vector) || 1;
    const start = this.count * this.dimension;
    for (let place = 0; place < this.dimension; place++) this.values[start + place] = vector[place] / length;
    this.count += 1;
  }

  /** Cosine similarity of two of the vectors. */
  similarity(one, two) {
    return product(this.values, one * this.dimension, this.values, two * this.dimension, this.dimension);
  }

  /** Places and similarities of the `k` vectors that are nearest to the first one of another list. */
  nearest(query, k) {
    const scores = Float32Array.from({ length: this.count }, (_, place) =>
      product(query.values, 0, this.values, place * this.dimension, this.dimension));
    const places = Array.from(scores.keys()).sort((one, two) => scores[two] - scores[one] || one - two);
    return places.slice(0, k).map((place) => ({ place, score: scores[place] }));
  }
}

function product(one, start, two, begin, length) {
  let sum = 0;
  for (let place = 0; place < length; place++) sum += one[start + place] * two[begin + place];
  return sum;
}
