import { resolve } from 'node:path';
import type { AddressGrammar } from './grammar.ts';

/** `sqlite:<path>`; `{source}` in the path stands for the name of the source. */
export const sqliteGrammar: AddressGrammar = {
  pattern: /^sqlite:(?!\/\/|:memory:)(?:[^{}]|\{source\})+$/,
  editorPattern: 'sqlite:(?!//|:memory:).+',
  expected: 'sqlite:<path>, where {source} may stand in the path',
  fault: () => null,
  ofSource: (address, source, cwd) =>
    `sqlite:${resolve(cwd, address.slice('sqlite:'.length).replaceAll('{source}', source))}`,
  place: { what: 'file', where: 'path' },
  hasPlacePerSource: (address) => address.includes('{source}'),
  sourceFault: () => null,
  transportFault: () => null,
  secrets: () => [],
};
