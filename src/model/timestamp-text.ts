/** Epoch milliseconds as the UTC text of our own tables, `YYYY-MM-DD HH:MM:SS.SSS`; sorts as time does. */
export function timestampText(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 23).replace('T', ' ');
}

/** The way back; NaN for anything else. */
export function timestampMs(text: string): number {
  return Date.parse(`${text.replace(' ', 'T')}Z`);
}
