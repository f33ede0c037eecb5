import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** A piece of Markdown: prose, or a code block with its language ('' where it names none) and its indentation taken off. */
interface Piece {
  language: string | null;
  text: string;
}

/** A page of the documentation. */
export interface Page {
  /** Path relative to the repository. */
  file: string;
  text: string;
  /** Text between this heading (without its `#`) and the next one of its rank or above; throws if there is none. */
  section(this: void, heading: string): string;
}

const root = path.join(import.meta.dirname, '..', '..');

/** Every page of the documentation by its path: the READMEs, the changelog, the reference in `config`, the results. */
export const PAGES: readonly string[] = [
  'README.md',
  'CHANGELOG.md',
  'test/bench/RESULTS.md',
  ...readdirSync(path.join(root, 'config')).flatMap((file) => (file.endsWith('.md') ? [`config/${file}`] : [])),
  ...['migrations', 'src', 'test'].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => path.basename(file) === 'README.md' && !file.startsWith('corpora/structured-fields'))
      .map((file) => `${folder}/${file}`),
  ),
];

export function readPage(file = 'README.md'): Page {
  const text = readFileSync(path.join(root, file), 'utf8');
  return { file, text, section: (heading) => sectionOf(text, heading) };
}

function sectionOf(text: string, heading: string): string {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line.startsWith('#') && line.replace(/^#+ /, '') === heading);
  if (start === -1) throw new Error(`the page has no section "${heading}"`);
  const rank = lines[start]?.indexOf(' ') ?? 0;
  const isNext = new RegExp(`^#{1,${rank}} `);
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => isNext.test(line));
  return rest.slice(0, end === -1 ? undefined : end).join('\n');
}

function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [{ language: null, text: '' }];
  let indent = 0;
  for (const line of text.split('\n')) {
    const [, space = '', language = ''] = /^( *)```(\w*)$/.exec(line) ?? [];
    const last = pieces.at(-1);
    if (/^ *```\w*$/.test(line)) {
      indent = space.length;
      pieces.push({ language: last?.language === null ? language : null, text: '' });
    } else if (last !== undefined) {
      last.text += `${last.language === null ? line : line.slice(indent)}\n`;
    }
  }
  return pieces;
}

/** Code blocks of these languages. */
export function codeBlocks(text: string, ...languages: string[]): string[] {
  const blocks = piecesOf(text).filter(({ language }) => language !== null && languages.includes(language));
  return blocks.map((block) => block.text);
}

/** The text without its code blocks. */
export function proseOf(text: string): string {
  return piecesOf(text)
    .filter(({ language }) => language === null)
    .map((piece) => piece.text)
    .join('\n');
}

const RULE = /^\|[-| ]+\|$/;

/** Rows of all tables in the text, without their heads. */
export function tableRows(text: string): string[][] {
  const lines = text.split('\n');
  const rows = lines.filter((line, at) => line.startsWith('|') && !RULE.test(line) && !RULE.test(lines[at + 1] ?? ''));
  return rows.map((line) =>
    line
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
}

/** The code spans of a text, in order. */
export function codeIn(text: string): string[] {
  return [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
}
