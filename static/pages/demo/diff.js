// Which lines two texts have in common: the longest common subsequence, by the plain table. Texts here are short; above
// MOST_LINES the middle is shown as replaced.

const MOST_LINES = 1_000;

/** @typedef {{sign: " " | "-" | "+", line: string}} DiffLine */

/** @param {string} one @param {string} other @returns {DiffLine[]} */
export function diff(one, other) {
  const [a, b] = [one.split("\n"), other.split("\n")];
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [...signed("-", a), ...signed("+", b)];
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ sign: " ", line: a[i] });
      i += 1;
      j += 1;
    } else if (common[i + 1][j] >= common[i][j + 1]) lines.push({ sign: "-", line: a[i++] });
    else lines.push({ sign: "+", line: b[j++] });
  }
  return [...lines, ...signed("-", a.slice(i)), ...signed("+", b.slice(j))];
}

/** @param {"-" | "+"} sign @param {string[]} lines @returns {DiffLine[]} */
const signed = (sign, lines) => lines.map((line) => ({ sign, line }));
