import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Settings } from '../../../settings/settings.ts';
import { databaseAt, sharedDatabase } from '../../../warehouse/databases.ts';

/** What a deployment has to know of the config that it runs with. */
export interface DeployedConfig {
  /** Base name of the config file. */
  file: string;
  /** The folder that it stands in, with profiles and files of sources. */
  folder: string;
  port: number;
  /** Null if workers listen nowhere. */
  workerPort: number | null;
  /** Names in the environment that the config reads, sorted. */
  names: string[];
  /** Whether any number of workers may share the work. */
  isShared: boolean;
  /** Folder of the files that are written; null if it is the working folder, or if there are none. */
  data: string | null;
}

const NAMES = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}/g;

/** `cwd` is where relative paths of the warehouse start. */
export function deployedConfig(settings: Settings, cwd: string): DeployedConfig {
  const folder = path.dirname(settings.path);
  const addresses = Object.values(settings.sources).map(({ warehouse }) => warehouse);
  const files = addresses.flatMap((address) => databaseAt(address).file ?? []);
  const outside = files.map((file) => path.dirname(file)).find((each) => path.relative(cwd, each).startsWith('..'));
  return {
    file: path.basename(settings.path),
    folder,
    port: settings.serve.port,
    workerPort: settings.worker.port,
    names: namesIn(settings.path),
    isShared: addresses.some((address) => sharedDatabase(address) !== null),
    data: outside ?? null,
  };
}

/** Of the config and of all files of sources beside it: a name too many does no harm. */
function namesIn(config: string): string[] {
  const folder = path.dirname(config);
  const beside = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.ya?ml$/.test(name) && !name.includes('node_modules'))
    .map((name) => path.join(folder, name))
    .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true);
  const texts = [...new Set([config, ...beside])].map((file) => readFileSync(file, 'utf8'));
  const found = texts.flatMap((text) => [...withoutComments(text).matchAll(NAMES)].map(([, name = '']) => name));
  return [...new Set(found)].toSorted();
}

function withoutComments(text: string): string {
  return text.replaceAll(/(?:^|\s)#.*$/gm, '');
}
