/** Formats epoch milliseconds as UTC text, `YYYY-MM-DD HH:MM:SS.SSS`, which sorts by time. */
export function timestampText(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 23).replace('T', ' ');
}

/** Parses such a text into epoch milliseconds; NaN for any other text. */
export function timestampMs(text: string): number {
  return Date.parse(`${text.replace(' ', 'T')}Z`);
}
