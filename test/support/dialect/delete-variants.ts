import type { DeleteVariant } from './dialect.ts';

const item = (gone: readonly number[] | null): Record<string, unknown> => ({
  item: '/content/{id}',
  ...(gone === null ? {} : { gone: { status: gone } }),
});

/** What is left of a post that is deleted. The first one is the usual one. */
export const DELETES: readonly DeleteVariant[] = [
  { name: '404', gone: 404, tomb: null, isTold: false, profile: () => ({ resource: item(null) }) },
  { name: '410', gone: 410, tomb: null, isTold: false, profile: () => ({ resource: item(null) }) },
  { name: '403', gone: 403, tomb: null, isTold: false, profile: () => ({ resource: item([403]) }) },
  { name: 'nothing at all', gone: null, tomb: null, isTold: false, profile: () => ({}) },
  {
    name: 'a time of the delete',
    gone: 404,
    tomb: { live: ['deletedAt', null], trashed: (at, { write }) => ['deletedAt', write(at)] },
    isTold: true,
    profile: () => ({ resource: { ...item(null), deleted: { field: 'deletedAt' } } }),
  },
  {
    name: 'in the trash',
    gone: 404,
    tomb: { live: ['status', 'published'], trashed: () => ['status', 'trash'] },
    isTold: true,
    profile: () => ({ resource: { ...item(null), deleted: { field: 'status', in: ['trash', 'gone'] } } }),
  },
  {
    name: 'in the trash, without single reads',
    gone: null,
    tomb: { live: ['status', 'published'], trashed: () => ['status', 'trash'] },
    isTold: true,
    profile: () => ({ resource: { deleted: { field: 'status', in: ['trash'] } } }),
  },
];
