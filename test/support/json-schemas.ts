import { z } from 'zod';
import type { JsonSchema } from '../../src/config/file/check-value.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';
import { namedSourceSchema, settingsSchema } from '../../src/config/settings.ts';

/** JSON Schema of the config file, for editors. */
export function configJsonSchema(): JsonSchema {
  const [, folder] = settingsSchema.shape.sources.options;
  const whole = settingsSchema.extend({ sources: z.union([namedSourceSchema.shape.sources, folder]) });
  return { title: 'content-sync config', ...z.toJSONSchema(whole, { io: 'input' }) };
}

/**
 * JSON Schema of a profile, for editors. Nothing is required in it, because a profile with `extends` holds only what
 * differs from its base, and null leaves a resource out; loading checks that the whole is complete.
 */
export function profileJsonSchema(): JsonSchema {
  const schema = z.toJSONSchema(profileSchema, { io: 'input', override: ({ jsonSchema }) => loosen(jsonSchema) });
  const resources = schema.properties?.['resources'];
  if (typeof resources === 'object' && typeof resources.additionalProperties === 'object') {
    const resource = resources.additionalProperties;
    resources.additionalProperties = { anyOf: [resource, { type: 'null' }] };
    const defaults = schema.properties?.['defaults'];
    if (typeof defaults === 'object') delete Object.assign(defaults, resource).propertyNames;
  }
  return { title: 'content-sync profile', ...schema };
}

function loosen(schema: JsonSchema): void {
  delete schema.required;
  // A part of a map may fit several branches of a union, which `oneOf` would refuse.
  if (schema.oneOf === undefined) return;
  schema.anyOf = schema.oneOf;
  delete schema.oneOf;
}
