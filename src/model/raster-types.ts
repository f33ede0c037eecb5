/**
 * Images that a browser may display. SVG is excluded, because it can contain scripts.
 */
export const RASTER_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'] as const;
export type RasterType = (typeof RASTER_TYPES)[number];

/** Larger images can only be downloaded. */
export const MAX_SHOWN_BYTES = 20_000_000;
