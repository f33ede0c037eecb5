import { pino } from 'pino';
import type { DestinationStream, Logger } from 'pino';
import { visibleText } from '../model/visible-text.ts';
import type { LogLevel } from '../model/words.ts';
import { scrub } from './scrub.ts';

export interface LogOptions {
  level: LogLevel;
  /** Texts that must not be written; the list is read at each line, so a token that is fetched later can be pushed. */
  secrets: readonly string[];
  /** Takes the lines; standard error where absent. */
  destination?: DestinationStream;
}

/**
 * The log: one JSON object per line with `level` by name and `time` in ISO 8601. The serialised line is searched for
 * the secrets, because a search by field names misses most of the ways in which a secret gets into a log.
 */
export function createLog({ level, secrets, destination = stderr() }: LogOptions): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // What is no Error is what a report says of one: it stays as it is.
      serializers: { error: (value: unknown) => (value instanceof Error ? pino.stdSerializers.err(value) : value) },
      hooks: { streamWrite: (line) => cleanLine(line, secrets) },
    },
    destination,
  );
}

/** Written at once: a line must not be lost when the process ends. */
function stderr(): DestinationStream {
  return pino.destination({ fd: 2, sync: true });
}

function cleanLine(line: string, secrets: readonly string[]): string {
  const body = line.trimEnd();
  const scrubbed = scrub(body, secrets);
  // A secret of digits only may have stood as a number, where `***` is no JSON.
  const safe = scrubbed === body || isJson(scrubbed) ? scrubbed : scrubValues(body, secrets);
  return `${visibleText(safe)}\n`;
}

function scrubValues(line: string, secrets: readonly string[]): string {
  const clean = (value: unknown): unknown => {
    if (Array.isArray(value)) return isBytesOfSecret(value, secrets) ? '***' : value.map(clean);
    if (typeof value === 'string' || typeof value === 'number') {
      const scrubbed = scrub(String(value), secrets);
      return scrubbed === String(value) ? value : scrubbed;
    }
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [scrub(key, secrets), clean(part)]));
  };
  return isJson(line) ? JSON.stringify(clean(JSON.parse(line))) : JSON.stringify({ level: 'error', msg: '***' });
}

/** A buffer is serialised as the list of its bytes. */
function isBytesOfSecret(list: readonly unknown[], secrets: readonly string[]): boolean {
  const text = list.every((entry) => typeof entry === 'number') ? list.join(',') : '';
  return list.length > 1 && scrub(text, secrets) !== text;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
