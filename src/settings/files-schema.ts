import { z } from 'zod';
import { timeSpan } from '../source/basic-fields.ts';
import { storeAddress } from '../source/file-fields.ts';

/** Where the files of a source go, which its profile names resource by resource. */
export const filesSchema = z
  .strictObject({
    store: storeAddress.nullable().default(null).meta({
      description: 'disk:<path> or s3://bucket/prefix; null to fetch none but those whose profile names a store',
    }),
    allow_hosts: z
      .array(z.string().regex(/^(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?$/, 'expected a host, or host:port'))
      .default([])
      .meta({ description: 'Hosts, or host:port, that files may come from although they are private addresses' }),
    grace: timeSpan
      .prefault('7d')
      .meta({ description: 'How long `files prune` keeps earlier contents, unless the resource has history: all' }),
    recheck: timeSpan.nullable().default(null).meta({
      description:
        'How old a file may be before it is asked for again without its record having changed; null for never',
    }),
  })
  .meta({ description: 'Where the files go that the profile names' });

export type FilesFile = z.output<typeof filesSchema>;
