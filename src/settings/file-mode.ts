import { z } from 'zod';

const EXPECTED = 'expected 0600, 0640 (its group may read) or 0644 (everybody may)';
const MODES = [0o600, 0o640, 0o644] as const;

/** Rights of written files, as `chmod` writes them; parsed to the mode as a number. */
export const fileMode = z
  .union([z.int(), z.string()], EXPECTED)
  .transform((given, context): number => {
    const mode = MODES.find((each) => meanings(each).includes(String(given)));
    if (mode === undefined) context.addIssue({ code: 'custom', message: EXPECTED });
    return mode ?? MODES[0];
  })
  .meta({ description: 'Rights of files that are made, as chmod has them: 0600, 0640 or 0644; folders to match' });

/** YAML reads `0640` as the number 640, and `0o640` as 416. */
function meanings(mode: number): string[] {
  const digits = mode.toString(8);
  return [digits, `0${digits}`, `0o${digits}`, String(mode)];
}

/** The umask under which files get this mode, and folders the right to enter for everybody who may read the files. */
export function umaskOf(mode: number): number {
  const folder = mode | ((mode & 0o444) >> 2);
  return ~folder & 0o777;
}
