import { readFileSync } from 'node:fs';
import path from 'node:path';
import { stringify } from 'yaml';
import { ConfigError, messageOf } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import { countOf } from '../../observe/figures.ts';
import { packageRoot } from '../../settings/package-root.ts';
import type { CliContext } from '../command/context.ts';
import { print } from '../command/output.ts';
import { writeOwnedFiles } from './owned-files.ts';

/** Texts are written as they are; a list or a condition (false, '' and [] are none) belongs to a section. */
export type TemplateValues = Readonly<Record<string, string | boolean | readonly string[]>>;

const SECTION = /^\{\{([#^])(\w+)\}\}\n([^]*?)^\{\{\/\2\}\}\n/gm;

/** Reads a template below `config/deploy` and fills it in. */
export function renderTemplate(name: string, values: TemplateValues): string {
  return render(readFileSync(path.join(packageRoot(), 'config', 'deploy', name), 'utf8'), values);
}

/**
 * `{{name}}` is a value. `{{#name}}` to `{{/name}}`, each on a line of its own, is repeated for each `{{item}}` of a list,
 * or written if the condition holds; `{{^name}}` is written if it does not.
 */
function render(template: string, values: TemplateValues): string {
  const filled = template.replaceAll(SECTION, (_, sign: string, name: string, body: string) => {
    const value = values[name] ?? '';
    if (typeof value === 'object') return value.map((item) => render(body, { ...values, item })).join('');
    return (value !== '' && value !== false) === (sign === '#') ? render(body, values) : '';
  });
  return filled.replaceAll(/\{\{(\w+)\}\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** A text as a YAML scalar. */
export function toYaml(text: string): string {
  return stringify(text, { lineWidth: 0 }).trimEnd();
}

export interface ExportOptions {
  force?: true;
  json?: true;
}

/** Names of environment variables. */
export interface Variables {
  required: readonly string[];
  optional: readonly string[];
}

/** Writes the files, and prints what was written and which variables they expect. */
export async function exportFiles(
  context: CliContext,
  dir: string,
  files: ReadonlyMap<string, string>,
  { force, json }: ExportOptions,
  variables: Variables | null = null,
): Promise<void> {
  // They hold no secret, and systemd, Docker and Prometheus read them as users of their own.
  context.umask(0o022);
  const folder = path.resolve(context.cwd, dir);
  const choice = { force: force === true, isWhole: false };
  const done = await writeOwnedFiles(folder, files, choice).catch((error: unknown) => {
    const hint = 'name a folder that this user may write to';
    throw new ConfigError('usage', `${folder} cannot be written: ${messageOf(error)}`, { hint, cause: error });
  });
  const lines = [
    `${folder}: ${countOf(done.written.length, 'file')} written, ${done.unchanged.length} unchanged`,
    ...done.kept.map((name) => `not written, because it was changed by hand: ${name}`),
    ...(done.kept.length === 0 ? [] : ['  → move your changes to a file of your own, or overwrite them with --force']),
    ...listVariables('set where it runs', variables?.required),
    ...listVariables('may be set where it runs', variables?.optional),
  ];
  const named = variables === null ? {} : { secrets: variables.required, optional: variables.optional };
  const report = { folder, ...named, ...done };
  print(context, json === true ? report : lines.map(visibleText).join('\n'));
}

function listVariables(label: string, names: readonly string[] = []): string[] {
  return names.length === 0 ? [] : [`${label}: ${names.join(', ')}`];
}
