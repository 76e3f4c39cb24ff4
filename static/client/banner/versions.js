/**
 * Whether one version of a document is newer than another. Versions are opaque; but those that end in a whole number after
 * the same beginning, such as `v9` and `v10`, are compared by it: a back end may be ahead of what the room was told.
 *
 * @param {string | null} one
 * @param {string | null} other
 */
export function isNewer(one, other) {
  if (one === null || other === null) return false;
  const [, start, count] = one.match(/^(.*?)(\d+)$/) ?? [];
  const [, otherStart, otherCount] = other.match(/^(.*?)(\d+)$/) ?? [];
  if (start === undefined || start !== otherStart) return one !== other;
  return BigInt(count) > BigInt(otherCount);
}
