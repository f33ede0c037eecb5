import { readFileSync } from 'node:fs';
import { ConfigError } from '../../model/errors.ts';
import type { FaultValue } from './fault.ts';
import type { FaultScript } from './fault-script.ts';
import { checkScript, knownFault } from './fault-script.ts';
import type { FaultName } from './faults.ts';
import { FAULTS } from './faults.ts';

const NUMBERS_OF_WHEN = new Set(['page', 'nth', 'every', 'times', 'probability', 'seed']);
const ESCAPES: Readonly<Record<string, string>> = { r: '\r', n: '\n', t: '\t' };

/**
 * Reads a fault from the command line: `status:503,resource=content,nth=3`. What stands behind the colon is the
 * fault's first parameter, `header.NAME=value` adds a header, `file=PATH` reads `text` from a file; `\,` is a comma,
 * `\r \n \t` are what they usually are. Throws ConfigError.
 */
export function parseFault(text: string): FaultScript {
  const [, name = '', rest = ''] = /^([^:,]*)[:,]?([^]*)$/.exec(text) ?? [];
  const fault = knownFault(name);
  const parameters: Record<string, FaultValue> = {};
  const [first] = Object.keys(FAULTS[fault].defaults);
  for (const piece of pieces(rest)) read(parameters, fault, piece, first);
  const script: FaultScript = { ...parameters, fault };
  checkScript(script);
  return script;
}

function read(script: Record<string, FaultValue>, name: FaultName, piece: string, first: string | undefined): void {
  const [, key, value = ''] = /^([a-z][\w.-]*)=([^]*)$/i.exec(piece) ?? [null, first ?? piece, piece];
  if (key === undefined || key === null) return;
  if (key === 'file') script['text'] = readFileSync(value);
  else if (key.startsWith('header.')) script['headers'] = { ...headersOf(script), [key.slice(7)]: unescaped(value) };
  else script[key] = isNumber(name, key) ? numberIn(key, value) : unescaped(value);
}

function isNumber(name: FaultName, key: string): boolean {
  const defaults: Readonly<Record<string, FaultValue>> = FAULTS[name].defaults;
  return NUMBERS_OF_WHEN.has(key) || typeof defaults[key] === 'number';
}

function numberIn(key: string, text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new ConfigError('usage', `A fault's "${key}" must be a number, not "${text}".`);
}

function headersOf(script: Record<string, FaultValue>): Record<string, string> {
  const headers = script['headers'];
  return typeof headers === 'object' && !(headers instanceof Uint8Array) ? headers : {};
}

/** Parts at commas that no backslash stands before. */
function pieces(text: string): string[] {
  return text.split(/(?<!\\),/).filter((piece) => piece !== '');
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_whole, letter: string) => ESCAPES[letter] ?? letter);
}
