import { ConfigError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { FieldPath } from './field-path.ts';

/** One thing that is wrong with a value, before it is located in a file. */
export interface SettingsFinding {
  path: FieldPath;
  /** Whether the key at the end of the path is wrong, or its value. */
  part: 'key' | 'value';
  /** For a person: `expected …, got …`; never holds a secret. */
  message: string;
}

/** A finding in its file; lines and columns count from 1. */
export interface Fault {
  file: string;
  line: number;
  column: number;
  /** `sources.blog.base_url`; empty if the file itself is at fault. */
  field: string;
  message: string;
}

/** All faults in one message, one per line: `file:line:column  field: expected …, got …`. */
export function settingsError(...faulty: readonly { readonly faults: readonly Fault[] }[]): ConfigError {
  return new ConfigError('settings_invalid', renderFaults(faulty.flatMap(({ faults }) => faults)), {
    hint: 'Correct the lines above; `content-sync config schema` prints what an editor needs to help with it.',
  });
}

/** One line per fault, in the order of the files and their lines, each fault once. */
export function renderFaults(faults: readonly Fault[]): string {
  const files = [...new Set(faults.map((fault) => fault.file))];
  const inOrder = faults.toSorted(
    (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column,
  );
  return [...new Set(inOrder.map(renderFault))].join('\n');
}

function renderFault({ file, line, column, field, message }: Fault): string {
  return visibleText(`${file}:${line}:${column}  ${field === '' ? '' : `${field}: `}${message}`);
}
