import { SOURCE_NAME } from '../settings/settings.ts';

/** A page about sources, by its path. */
export type PagePath =
  | { page: 'overview' }
  | { page: 'source'; source: string }
  | { page: 'resource'; source: string; resource: string }
  | { page: 'run'; source: string; run: string };

const RESOURCE_NAME = /^[a-z][a-z0-9_]{0,40}$/;
const RUN_ID = /^\d{8}T\d{6}Z-[0-9a-f]{1,16}$/;

/**
 * The page of a path, without its query: `/`, `/sources/<name>`, `/sources/<name>/<resource>`,
 * `/sources/<name>/runs/<id>`. Null for everything else, escapes and doubled slashes included: names hold nothing that has to be escaped.
 */
export function pagePathOf(path: string): PagePath | null {
  if (path === '/') return { page: 'overview' };
  const [empty, sources, source = '', resource, run, ...more] = path.split('/');
  if (empty !== '' || sources !== 'sources' || more.length > 0 || !SOURCE_NAME.test(source)) return null;
  if (resource === undefined) return { page: 'source', source };
  if (run !== undefined) return resource === 'runs' && RUN_ID.test(run) ? { page: 'run', source, run } : null;
  return RESOURCE_NAME.test(resource) ? { page: 'resource', source, resource } : null;
}
