// The token of the link that led here. It leaves the address bar at once, so that it is not copied or bookmarked.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) history.replaceState(null, "", location.pathname);

window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  displayRequestDuration: true,
  tryItOutEnabled: true,
  onComplete: () => {
    if (token) window.ui.preauthorizeApiKey("token", token);
  },
});
