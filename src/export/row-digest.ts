import { hash } from 'node:crypto';
import type { ViewCell } from '../warehouse/snapshot-reader.ts';

export type RowDigest = ReturnType<typeof rowDigest>;

const LANES = 8;
const LANE_BYTES = 4;

/** Adds up the hashes of rows, so that neither their order counts nor two equal ones cancel each other out. */
export function rowDigest() {
  const sums = new Uint32Array(LANES);
  let rows = 0;
  return {
    add: (row: readonly ViewCell[]): void => {
      const digest = hash('sha256', row.map(cellText).join(''), 'buffer');
      for (let lane = 0; lane < LANES; lane += 1) {
        sums[lane] = (sums[lane] ?? 0) + digest.readUInt32LE(lane * LANE_BYTES);
      }
      rows += 1;
    },
    rows: (): number => rows,
    text: (): string => [...sums].map((sum) => sum.toString(16).padStart(2 * LANE_BYTES, '0')).join(''),
  };
}

/** Tells NULL from an empty text, and where a cell ends. */
function cellText(cell: ViewCell): string {
  if (cell === null) return 'n';
  const text = String(cell);
  return `${text.length}:${text}`;
}
