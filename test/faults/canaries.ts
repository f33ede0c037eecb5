import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** Where a secret was found: its name, the form in which it stood there, and what stood around it. */
export interface Leak {
  secret: string;
  form: string;
  where: string;
  around: string;
}

/** Ways of writing a secret that a reader of a log, a page or a file could turn back. */
const FORMS: readonly [name: string, write: (secret: string) => readonly string[]][] = [
  ['as it is', (secret) => [latin1(secret)]],
  ['cut off', (secret) => [latin1(secret.slice(0, BEGINNING))]],
  ['escaped for JSON', (secret) => [latin1(JSON.stringify(secret).slice(1, -1))]],
  ['escaped for JSON twice', (secret) => [latin1(JSON.stringify(JSON.stringify(secret).slice(1, -1)).slice(1, -1))]],
  ['escaped for HTML', (secret) => [latin1(htmlEscaped(secret))]],
  ['escaped for a URL', (secret) => [encodeURIComponent(secret), encodeURI(secret)]],
  ['escaped as a form', (secret) => [new URLSearchParams({ k: secret }).toString().slice(2)]],
  ['in hex', (secret) => ['hex', 'HEX'].map((form) => hexOf(secret, form === 'HEX'))],
  ['in base64', (secret) => [0, 1, 2].flatMap((before) => base64Cores(secret, before))],
  ['as a list of bytes', (secret) => [[...Buffer.from(secret)].join(',')]],
];

/** So much of a secret is not common to several. */
const BEGINNING = 14;

/** Looks for secrets, by name, in texts; answers one leak per secret at most. */
export function leakFinder(secrets: Readonly<Record<string, string>>): (where: string, text: string) => Leak[] {
  const wanted = Object.entries(secrets).flatMap(([secret, value]) =>
    FORMS.flatMap(([form, write]) => [...new Set(write(value))].map((written) => ({ secret, form, written }))),
  );
  return (where, text) => {
    const found = wanted.flatMap(({ secret, form, written }) => {
      const at = text.indexOf(written);
      return at === -1 ? [] : [{ secret, form, where, around: text.slice(Math.max(0, at - 60), at + 80) }];
    });
    return [...new Map(found.map((leak) => [leak.secret, leak])).values()];
  };
}

/** All files below a folder, byte for byte as Latin-1 text, by path within it. */
export function filesIn(folder: string, isOurs: (file: string) => boolean): [file: string, bytes: string][] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)))
    .filter((file) => !isOurs(file))
    .flatMap((file) => {
      const bytes = bytesOf(path.join(folder, file));
      return bytes === null ? [] : [[file, bytes.toString('latin1')]];
    });
}

/** Null for a file that is gone by now: a source at rest closes its own. */
function bytesOf(file: string): Buffer | null {
  try {
    return readFileSync(file);
  } catch (error) {
    if (!existsSync(file)) return null;
    throw error;
  }
}

/** UTF-8 bytes as one character each: the form in which files are searched. */
function latin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function htmlEscaped(text: string): string {
  const marks: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return text.replace(/[&<>"']/g, (mark) => marks[mark] ?? mark);
}

function hexOf(text: string, isUpper: boolean): string {
  const hex = Buffer.from(text).toString('hex');
  return isUpper ? hex.toUpperCase() : hex;
}

/** The digits that the secret alone decides, after so many bytes of something else, in both alphabets. */
function base64Cores(secret: string, before: number): string[] {
  const bytes = Buffer.from(secret);
  const text = Buffer.concat([Buffer.alloc(before), bytes])
    .toString('base64')
    .replaceAll('=', '');
  const core = text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  return [core, core.replaceAll('+', '-').replaceAll('/', '_')];
}
