import { SOURCE_NAME } from '../settings/settings.ts';

/** A page about sources, by its path. */
export type PagePath =
  | { page: 'overview' }
  | { page: 'source'; source: string }
  | { page: 'resource'; source: string; resource: string };

const RESOURCE_NAME = /^[a-z][a-z0-9_]{0,40}$/;

/**
 * The page of a path, without its query: `/`, `/sources/<name>`, `/sources/<name>/<resource>`. Null for everything
 * else, escapes and doubled slashes included: names hold nothing that has to be escaped.
 */
export function pagePathOf(path: string): PagePath | null {
  if (path === '/') return { page: 'overview' };
  const [empty, sources, source = '', resource, ...more] = path.split('/');
  if (empty !== '' || sources !== 'sources' || more.length > 0 || !SOURCE_NAME.test(source)) return null;
  if (resource === undefined) return { page: 'source', source };
  return RESOURCE_NAME.test(resource) ? { page: 'resource', source, resource } : null;
}
