import { defineConfig } from "vite";

// One script and one style sheet, under names of their content; nothing inline, nothing from elsewhere.
export default defineConfig({
  base: "/",
  publicDir: "public",
  build: {
    outDir: "../queend/dashboard", emptyOutDir: true, assetsDir: "assets", assetsInlineLimit: 0, target: "es2022",
    cssCodeSplit: false, modulePreload: false, sourcemap: false, reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:6632", "/health": "http://127.0.0.1:6632", "/streams": "http://127.0.0.1:6632" } },
});
