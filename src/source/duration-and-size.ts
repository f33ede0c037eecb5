import { z } from 'zod';

const DURATION_EXPECTED = 'expected a duration such as 500ms, 30s, 10m or 1h';
const SIZE_EXPECTED = 'expected a size such as 64MiB, 500kB or 2GB';
/** Node's timers fire at once if they are set for longer than this. */
const LONGEST_MS = 2_147_483_647;

const DURATION_UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const SIZE_UNITS = {
  B: 1,
  kB: 1_000,
  KiB: 1_024,
  MB: 1_000_000,
  MiB: 1_048_576,
  GB: 1_000_000_000,
  GiB: 1_073_741_824,
} as const;

/** A duration in a YAML file (`500ms`, `30s`, `10m`, `1h`, `2d`), read as milliseconds, that nobody waits for. */
export const timeSpan = z
  .string(DURATION_EXPECTED)
  .regex(/^\d+(\.\d+)?(ms|s|m|h|d)$/, DURATION_EXPECTED)
  .transform((text) => measure(text, DURATION_UNITS));

/** The same of one that is waited for. */
export const duration = timeSpan.refine((ms) => ms <= LONGEST_MS, 'expected a duration of at most 24d');

/** A size in a YAML file (`64MiB`, `500kB`), read as bytes. */
export const byteSize = z
  .string(SIZE_EXPECTED)
  .regex(/^\d+(\.\d+)?(B|kB|KiB|MB|MiB|GB|GiB)$/, SIZE_EXPECTED)
  .transform((text) => measure(text, SIZE_UNITS));

function measure(text: string, units: Readonly<Record<string, number>>): number {
  const unit = text.replace(/^[\d.]+/, '');
  return Math.round(Number.parseFloat(text) * (units[unit] ?? 1));
}
