import { countText, durationText } from './figures.ts';

/** What stands where nothing is known or there is nothing. */
export const NONE = '–';

/** `4m 12s ago`, `just now`. */
export function agoText(at: number, now: number): string {
  const seconds = (now - at) / 1_000;
  return seconds < 1.5 ? 'just now' : `${durationText(seconds)} ago`;
}

/** `in 4m 12s`, `now`. */
export function inText(at: number, now: number): string {
  const seconds = (at - now) / 1_000;
  return seconds < 1 ? 'now' : `in ${durationText(seconds)}`;
}

/** `340 ms`, `1.2 s`, `2m 05s`. */
export function delayText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : durationText(ms / 1_000);
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

/** `512 B`, `4.2 MB`. */
export function bytesText(bytes: number): string {
  const step = bytes < 1_000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1_000 ** step;
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[step]}`;
}

/** `1 record`, `12 records`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

/** UTC `14:05`. */
export function minuteText(at: number): string {
  return new Date(at).toISOString().slice(11, 16);
}

/** UTC `2026-11-20 14:05:09`; of today without the date. */
export function momentText(at: number, now: number): string {
  const [text, today] = [new Date(at).toISOString(), new Date(now).toISOString().slice(0, 10)];
  return text.startsWith(today) ? text.slice(11, 19) : `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}
