import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../model/errors.ts';
import type { Profile } from '../source/profile.ts';
import { checkFile, type ReadProfile } from './check-file.ts';
import type { Fault } from './file/fault.ts';
import { isReadableByOthers } from './file/secret-fields.ts';
import { readYamlFile } from './file/yaml-file.ts';
import type { ProfilePlace } from './load-profile.ts';
import { namedSourceSchema, SOURCE_NAME, type SourcesFile } from './settings.ts';

const ENDING = '.yaml';

/** A file of the folder. A file with faults may have a source all the same. */
export interface SourceFile {
  name: string;
  /** As shown to a person. */
  file: string;
  source: { settings: SourcesFile[string]; profile: Profile } | null;
  faults: Fault[];
  secrets: string[];
  /** True if a secret stands in the file itself, and others may read it. */
  isExposed: boolean;
}

/** Reads every source of a folder, in the order of their names. Ignores hidden files, folders and other kinds of files. */
export function readSourceFolder(
  folder: string,
  place: ProfilePlace,
  readProfile: ReadProfile,
): { files: SourceFile[] } | { problem: string } {
  const names = fileNames(folder);
  if ('problem' in names) return names;
  if (names.found.length === 0) return { problem: `expected at least one <name>.yaml in the folder` };
  return { files: names.found.map((name) => readSource(join(folder, name), name, place, readProfile)) };
}

function fileNames(folder: string): { found: string[] } | { problem: string } {
  try {
    // In a mounted ConfigMap the files are links, so the kind of an entry is not checked.
    const found = readdirSync(folder).filter((name) => /^[^.].*\.ya?ml$/.test(name));
    return { found: found.toSorted() };
  } catch (error) {
    return { problem: `expected a readable folder (${messageOf(error).replace(/^(\w+).*/s, '$1')})` };
  }
}

function readSource(path: string, fileName: string, place: ProfilePlace, readProfile: ReadProfile): SourceFile {
  const name = fileName.replace(/\.ya?ml$/, '');
  const file = place.shown(path);
  const unreadable = { name, file, source: null, secrets: [], isExposed: false };
  if (!fileName.endsWith(ENDING) || !SOURCE_NAME.test(name)) {
    const message = `expected a file name such as blog.yaml, in lower case, got ${JSON.stringify(fileName)}`;
    return { ...unreadable, faults: [{ file, line: 1, column: 1, field: '', message }] };
  }
  const { read, faults } = readYamlFile(path, file);
  if (read === null) return { ...unreadable, faults };
  // Checked as if it stood in the config file, so that the same rules hold for its fields.
  const value = { sources: { [name]: read.value } };
  const locate: typeof read.locate = (finding) => read.locate({ ...finding, path: finding.path.slice(2) });
  const checked = checkFile(namedSourceSchema, { value, locate }, place, readProfile);
  const settings = checked.data?.sources[name];
  const profile = checked.profiles.get(name);
  const source = settings === undefined || profile === undefined ? null : { settings, profile };
  const isExposed = checked.holdsSecret && isReadableByOthers(path);
  return { name, file, source, faults: checked.faults, secrets: checked.secrets, isExposed };
}
